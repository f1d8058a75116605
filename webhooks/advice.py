"""What a page says of an endpoint or a delivery: what holds, what was not done, what helps."""

from __future__ import annotations

from webhooks.states import DeliveryState, EndpointState


def of_endpoint(state: str, waiting: int, address: str, *, skips: bool) -> str:
    """One endpoint; ``address`` is its own over HTTP."""
    if state == EndpointState.DISABLED:
        return (
            "Nothing is sent to it; its events are kept as skipped. Once its receiver is mended: "
            f"POST {address}enable/, then POST {address}recover/ with include_skipped."
        )
    if state == EndpointState.FAILING:
        return (
            f"It did not take a message, or has taken none since it was enabled. {waiting} wait "
            "and none of them is lost: one at a time is tried, ever later. Once its receiver is "
            f"mended: POST {address}test/. Any success lets the rest go, oldest first; for what "
            f"died: POST {address}recover/."
        )
    if skips:
        return (
            f"It is sent more than it takes: {waiting} wait, and new events are kept as skipped. "
            f"When fewer wait: POST {address}recover/ with include_skipped."
        )
    return f"It takes its messages; {waiting} wait for their turn. There is nothing to do."


def of_delivery(status: str, address: str, of_endpoint: str) -> str:
    """One delivery; the addresses are its own and its endpoint's."""
    again = f"POST {address}redeliver/ with a reason and an Idempotency-Key"
    return {
        DeliveryState.SUCCEEDED.value: f"The receiver took it. To send it once more: {again}.",
        DeliveryState.DEAD.value: (
            "The receiver did not take it, and nothing tries again by itself. Its requests below "
            f"say why. Once the receiver is mended: {again}; or all that it missed: "
            f"POST {of_endpoint}recover/."
        ),
        DeliveryState.CANCELLED.value: (
            "It was ended before it was taken: its endpoint was disabled, or somebody cancelled "
            f"its job. To send it: {again}."
        ),
        DeliveryState.SKIPPED.value: (
            "It was never sent: its endpoint was disabled, or too much waited for it. "
            f"To send it: {again}."
        ),
    }.get(status, "It is on its way, or waits for its turn: nothing is lost. Its job says more.")
