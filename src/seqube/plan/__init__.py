"""Bound trees and statistics become one physical plan, with its reasons."""
