"""Two views: order something, and see how its receipt is doing."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from .models import Order
from .queue_client import client


@csrf_exempt  # only so that the example can be tried with curl
@require_POST
def create(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(email=request.POST["email"])
        # Not before: a node could be faster than the commit, and of a rollback it would never know.
        transaction.on_commit(lambda: ask_for_receipt(order.pk))
    return JsonResponse({"order": order.pk}, status=202)


def ask_for_receipt(order: int) -> None:
    """Submit the order's job; a second one while it is unfinished is the same."""
    client().submit("orders.receipt", {"order": order}, key=f"receipt-{order}")


def show(_: HttpRequest, number: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=number)
    return JsonResponse({"order": order.pk, "receipt": order.receipt or None})
