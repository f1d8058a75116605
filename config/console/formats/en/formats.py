"""Moments as they stand in logs, so that the two can be compared by eye."""

DATETIME_FORMAT = "Y-m-d H:i:s e"
DATE_FORMAT = "Y-m-d"
