package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lwio"
)

// finding is the doctor's report of a transport.
type finding struct {
	Transport string `json:"transport"`
	// Usable is whether the transport works, Used whether a client chooses it.
	Usable bool   `json:"usable"`
	Used   bool   `json:"used"`
	Detail string `json:"detail"`
	// Encryption is the cipher of the data, "" if it is not encrypted.
	Encryption string `json:"encryption,omitempty"`
	// Next is the advice for a transport that does not work.
	Next string `json:"next,omitempty"`
}

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [flags] [URL]",
		Short: "Report which transports work, and why the others do not",
		Long: `Without a URL, try every RDMA provider of this host against itself. With a URL, try
every transport against that server. Report which transport a client uses, why the others
do not work, and the next step. The exit status is 1 if no RDMA provider works, or if the
transport that the URL or --require-rdma asks for does not work.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("doctor takes one URL, or nothing")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				found := examineHost(cmd.Context())
				return errors.Join(printFindings(a.stdout, found, asJSON), anyUsable(found))
			}
			found, err := a.examineServer(cmd.Context(), args[0])
			if found != nil {
				err = errors.Join(printFindings(a.stdout, found, asJSON), err)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return a.clientFlags(cmd)
}

// anyUsable is an error if no provider works.
func anyUsable(found []finding) error {
	for _, f := range found {
		if f.Usable {
			return nil
		}
	}
	return errors.New("doctor: no RDMA provider works on this host")
}

// printFindings prints a line for each finding, and the next step below it.
func printFindings(out io.Writer, found []finding, asJSON bool) error {
	if asJSON {
		return writeJSON(out, found)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range found {
		state := "does not work"
		switch {
		case f.Used:
			state = "in use"
		case f.Usable:
			state = "works"
		}
		detail := printable(f.Detail)
		if f.Encryption != "" {
			detail += ", encrypted with " + f.Encryption
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Transport, state, detail)
		if f.Next != "" {
			fmt.Fprintf(w, "\t\t-> %s\n", f.Next)
		}
	}
	return w.Flush()
}

// examineServer tries each transport against the server of a URL, and then the choice of the
// URL itself.
func (a *app) examineServer(ctx context.Context, arg string) ([]finding, error) {
	t, err := target(arg)
	if err != nil {
		return nil, err
	}
	id, err := a.logon().identity(ctx, t)
	if err != nil {
		return nil, err
	}
	var log *slog.Logger // the findings have the failures
	if a.settings.Verbose {
		log = a.logger(ctx)
	}
	dial := func(provider string, require bool) (lwio.Transport, error) {
		cfg := a.clientConfig(id)
		cfg.RequireRDMA, cfg.Logger = require, log
		c, err := lwio.Dial(ctx, withQuery(arg, "provider", provider), cfg)
		if err != nil {
			return lwio.Transport{}, err
		}
		return c.Transport(), c.Close()
	}
	smb := finding{Transport: lwio.TransportSMB}
	overSMB, err := dial(lwio.TransportSMB, false)
	if err != nil {
		smb.Detail, smb.Next = plain(lwio.TransportSMB, err), advice(lwio.TransportSMB, err)
		return []finding{smb}, fmt.Errorf("doctor %s: nothing works without SMB", t)
	}
	smb.Usable, smb.Detail, smb.Encryption = true, "at "+t.Host, overSMB.Encryption
	var found []finding
	for _, p := range a.providers() {
		f := finding{Transport: p.Name()}
		if tr, err := dial(p.Name(), true); err == nil {
			f.Usable, f.Detail, f.Encryption = true, "at "+tr.Addr, tr.Encryption
		} else {
			f.Detail, f.Next = plain(p.Name(), err), advice(p.Name(), err)
		}
		found = append(found, f)
	}
	found = append(found, smb)
	tr, err := dial("", a.requireRDMA)
	if err != nil {
		return found, fmt.Errorf("doctor %s: the required transport does not work: %w", t, err)
	}
	for i := range found {
		found[i].Used = found[i].Transport == tr.Name
	}
	if t.Provider == "" && !tr.RDMA() {
		return found, fmt.Errorf("doctor %s: no RDMA provider works: %s", t, tr.Reason)
	}
	return found, nil
}
