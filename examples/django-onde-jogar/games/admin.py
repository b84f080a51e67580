from django.contrib import admin
from django.contrib.auth.admin import UserAdmin

from .models import Event, Invite, Participation, User

admin.site.register(User, UserAdmin)


class ParticipationInline(admin.TabularInline):
    model = Participation
    extra = 1
    raw_id_fields = ["user"]


@admin.register(Event)
class EventAdmin(admin.ModelAdmin):
    list_display = ["id", "name"]
    readonly_fields = ["id"]
    search_fields = ["name"]
    ordering = ["-id"]
    inlines = [ParticipationInline]


@admin.register(Participation)
class ParticipationAdmin(admin.ModelAdmin):
    list_display = ["id", "user", "event"]
    raw_id_fields = ["user"]
    autocomplete_fields = ["event"]


@admin.register(Invite)
class InviteAdmin(admin.ModelAdmin):
    list_display = ["id", "event", "invited_by", "invited_user"]
    autocomplete_fields = ["event", "invited_by", "invited_user"]
