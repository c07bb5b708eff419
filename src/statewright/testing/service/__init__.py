"""A whole service in the process of a test."""

from statewright.testing.service.service import AsyncTestService, TestService

__all__ = ["AsyncTestService", "TestService"]
