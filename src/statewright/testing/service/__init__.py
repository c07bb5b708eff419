"""A service that runs in the process of a test."""

from statewright.testing.service.service import AsyncTestService, TestService

__all__ = ["AsyncTestService", "TestService"]
