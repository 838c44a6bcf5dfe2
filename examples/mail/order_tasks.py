from mail_tasks import send

from tontine import Module, call, current_job

orders = Module("orders", version="1.0")


@orders.task
def pack(number: int, customer: str) -> str:
    letter = call(send, to=customer, subject=f"Your order {number}", text="Thank you!")
    current_job().submit(letter)
    return f"order {number} is packed"
