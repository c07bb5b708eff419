"""Schedules: cron expressions, their records, and the scheduler that starts their runs."""

from statewright.service.schedules.cron import next_time
from statewright.service.schedules.registry import (
    CATCH_UPS,
    OVERLAPS,
    NewSchedule,
    add_schedule,
    change_schedule,
    count_schedules,
    get_schedule,
    list_schedules,
    pause_schedule,
    preview,
    preview_cron,
    remove_schedule,
    resume_schedule,
)
from statewright.service.schedules.scheduler import Scheduler

__all__ = [
    "CATCH_UPS",
    "OVERLAPS",
    "NewSchedule",
    "Scheduler",
    "add_schedule",
    "change_schedule",
    "count_schedules",
    "get_schedule",
    "list_schedules",
    "next_time",
    "pause_schedule",
    "preview",
    "preview_cron",
    "remove_schedule",
    "resume_schedule",
]
