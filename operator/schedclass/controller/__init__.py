"""The controller role: inheritance, class status, protection; one leader at a time."""
