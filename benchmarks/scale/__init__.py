"""The capacity model: measured costs, one database simulated event by event, and fleets of databases."""
