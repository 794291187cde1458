"""The SQL parser: text to statements, with queries as sqlglot's trees and definitions read token by token."""
