"""Durable state: the journal of events and decisions, requests, leases."""
