"""IDs in JSON, for readers whose numbers end at 2**53: JavaScript, and so every browser.

    return JsonResponse({"event": {"id": event.id, "name": event.name}}, encoder=SnowflakeJSONEncoder)

gives {"event": {"id": "7277771434402209792", ...}}. In views of your own str(event.id) does the same.
"""

from __future__ import annotations

from typing import Any, Iterator

from django.core.serializers.json import DjangoJSONEncoder

LARGEST_SAFE = 2**53 - 1


def _safe(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > LARGEST_SAFE:
        return str(value)
    if isinstance(value, dict):
        return {key: _safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_safe(item) for item in value]
    return value


class SnowflakeJSONEncoder(DjangoJSONEncoder):
    """Writes every integer that JavaScript would round as a text; all else as DjangoJSONEncoder does."""

    def iterencode(self, o: Any, _one_shot: bool = False) -> Iterator[str]:
        return super().iterencode(_safe(o), _one_shot)

    def default(self, o: Any) -> Any:
        return _safe(super().default(o))
