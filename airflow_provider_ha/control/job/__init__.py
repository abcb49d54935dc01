"""What every action on one job needs: its context, requests, owner, stores and leases."""
