"""What operators of the operator look at: metrics, logs, probes."""
