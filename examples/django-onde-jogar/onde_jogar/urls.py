from django.contrib import admin
from django.urls import path

from games import views

urlpatterns = [
    path("admin/", admin.site.urls),
    path("events/", views.events),
    path("events/<int:event_id>/", views.event),
    path("events/<int:event_id>/participations/", views.participations),
]
