"""Operations on a job: requests, stop and cancel, savepoints, disposal."""
