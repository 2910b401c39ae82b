"""Producers and consumers of queues that write down what they asked and were told, and a judge."""
