"""A few JSON views. IDs leave as texts, since a browser's numbers end at 2**53."""

from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from snowflake_id import decode
from snowflake_id.django_json import SnowflakeJSONEncoder

from .models import Event, Participation, User


def answer(data, status=200):
    return JsonResponse(data, encoder=SnowflakeJSONEncoder, status=status)


@csrf_exempt  # no cookie is looked at, so there is nothing to forge
@require_http_methods(["GET", "POST"])
def events(request):
    """GET: the newest first, since a larger ID is a later one. POST name=...: a new one."""
    if request.method == "GET":
        return answer({"events": list(Event.objects.order_by("-id").values("id", "name")[:100])})
    name = request.POST.get("name", "").strip()
    if not name:
        return answer({"error": "an event needs a name"}, status=400)
    event = Event.objects.create(name=name)
    return answer({"id": event.id, "name": event.name}, status=201)


@require_GET
def event(request, event_id):
    """When an event was created is a part of its ID."""
    found = get_object_or_404(Event, pk=event_id)
    return answer({"id": found.id, "name": found.name, "created": decode(found.id).time})


@csrf_exempt
@require_POST
def participations(request, event_id):
    """POST user=ID: that user takes part. The ID comes back from the browser as the text that it was given."""
    user_id = request.POST.get("user", "")
    if not user_id.isdecimal():
        return answer({"error": f"{user_id!r} is not a user's ID"}, status=400)
    participation = Participation.objects.create(
        event=get_object_or_404(Event, pk=event_id), user=get_object_or_404(User, pk=user_id)
    )
    return answer({"id": participation.id, "user": participation.user_id, "event": event_id}, status=201)
