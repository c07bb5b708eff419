-- Statements of clock.py, each after its name.

-- read
SELECT current_microseconds();
