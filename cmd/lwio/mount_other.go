//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) mountCommand() *cobra.Command {
	return &cobra.Command{
		Use: "mount URL DIR", Short: "Show a share as a directory of this host (Linux)", Hidden: true,
		RunE: func(*cobra.Command, []string) error { return errors.New("mount: it works on Linux only") },
	}
}
