"""Handling of data from and for other programs: conversion to JSON, validation, fingerprints, optional values."""
