"""Model templates: from spaces and options to an actor-critic."""
