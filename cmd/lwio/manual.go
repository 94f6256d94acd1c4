package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"lwio/cmd/lwio/internal/manual"
)

// manualTail are the last sections of the page of the whole command.
const manualTail = `.SH ENVIRONMENT
.TP
\fBLWIO_PASSWORD\fR, \fBLWIO_PASSWORD_FILE\fR
The password, and the file whose first line it is.
.SH FILES
.TP
~/.config/lwio/credentials
Passwords of servers, in lines lwio://USER:PASSWORD@HOST:PORT.
`

// manualCommand writes the manual pages of all commands, for packages.
func (a *app) manualCommand() *cobra.Command {
	var date string
	cmd := &cobra.Command{
		Use: "manual DIR", Short: "Write the manual pages into a directory", Hidden: true, Args: exactArgs(1, "one directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			day, err := time.Parse(time.DateOnly, date)
			if err != nil {
				return usagef("--date: %w", err)
			}
			cfg := &manual.Config{Date: day, Version: version(), Tail: manualTail}
			for _, p := range manual.Pages(cmd.Root(), cfg) {
				if err := os.WriteFile(filepath.Join(args[0], p.Name), []byte(p.Text), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&date, "date", time.Now().UTC().Format(time.DateOnly), "date of the pages")
	return cmd
}
