"""Consent, permits and labels: who allowed a replacement, the signed leave to render it, and the marks on the result.

What this cannot do: stop somebody with root on their own machine from editing open code. What it does: a farm's worker
renders nothing without a permit that the farm's key signed, and every altered deliverable says that it is altered.
"""
