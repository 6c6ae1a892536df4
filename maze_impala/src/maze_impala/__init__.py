"""IMPALA: asynchronous actors and a learner that corrects with V-trace."""
