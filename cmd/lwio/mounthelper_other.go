//go:build !linux

package main

import "context"

func isHelper(string) bool { return false }

func (a *app) helper(context.Context, []string) int { return exitFailure }
