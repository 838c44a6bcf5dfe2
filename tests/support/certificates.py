"""Certificates of an authority of our own, made by openssl when a test needs them."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Authority:
    """Signs certificates; each is one file with its key, as MongoDB and its drivers want it."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key, self.certificate = directory / f"{name}.key", directory / f"{name}.crt"
        _openssl(
            *(
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ),
            *("-subj", f"/O={name}/CN={name}", "-keyout", self._key, "-out", self.certificate),
        )

    def sign(self, name: str, subject: str, *, address: str = "") -> Path:
        """A certificate for a subject like `/O=Example/OU=nodes/CN=node-1`, and for a server's
        address."""
        key, request, signed = (
            self._directory / f"{name}.{kind}" for kind in ("key", "csr", "crt")
        )
        extensions = self._directory / f"{name}.ext"
        extensions.write_text(
            f"subjectAltName=IP:{address}\n" if address else "extendedKeyUsage=clientAuth\n"
        )
        _openssl(
            *(
                "req",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-subj",
                subject,
            ),
            *("-keyout", key, "-out", request),
        )
        _openssl(
            *(
                "x509",
                "-req",
                "-in",
                request,
                "-CA",
                self.certificate,
                "-CAkey",
                self._key,
                "-CAcreateserial",
            ),
            *("-days", "2", "-extfile", extensions, "-out", signed),
        )
        both = self._directory / f"{name}.pem"
        both.write_text(key.read_text() + signed.read_text())
        return both


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
