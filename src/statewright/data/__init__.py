"""Data at the boundary of the program: conversion to JSON, validation, fingerprints."""
