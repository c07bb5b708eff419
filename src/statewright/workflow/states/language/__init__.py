"""The language of workflow files: the model of a workflow, its grammar, parsing and checks.

`parse.parse_workflow` is the entry point. Nothing is imported here: projects use the model without the YAML parser.
"""
