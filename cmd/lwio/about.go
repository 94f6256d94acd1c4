package main

import (
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lwio"
	"lwio/rdma"
)

// revision is the revision of the protocol that the command speaks.
//
// Source: [LWIO §Network Discovery]
const revision = 0x1001

// packaged is the version of the package that the program is in. The linker sets it.
var packaged string

// version returns the version of the program.
func version() string {
	if bi, ok := debug.ReadBuildInfo(); ok && packaged == "" {
		return bi.Main.Version
	}
	if packaged == "" {
		return "(unknown)"
	}
	return packaged
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactArgs(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "lwio %s, LWIO revision 0x%X, SMB 3.0 to 3.1.1, %s\n", version(), revision, runtime.Version())
			return err
		},
	}
}

// providerJSON is how --json shows a provider.
type providerJSON struct {
	Name         string       `json:"name"`
	Addresses    []netip.Addr `json:"addresses"`
	Capabilities []string     `json:"capabilities"`
	Error        string       `json:"error,omitempty"`
}

func (a *app) providersCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "providers", Short: "List the RDMA providers of this host", Args: exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []providerJSON
			for _, p := range lwio.DefaultProviders() {
				all = append(all, describeProvider(cmd, p))
			}
			if asJSON {
				return writeJSON(a.stdout, all)
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "PROVIDER\tADDRESSES\tCAPABILITIES")
			for _, p := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, joinAddrs(p.Addresses), strings.Join(p.Capabilities, ", ")+p.Error)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// describeProvider opens an adapter and lists its capabilities.
func describeProvider(cmd *cobra.Command, p rdma.Provider) providerJSON {
	d := providerJSON{Name: p.Name()}
	addrs, err := p.Addrs(cmd.Context())
	if err != nil {
		d.Error = err.Error()
		return d
	}
	d.Addresses = addrs
	ad, err := p.OpenAdapter(cmd.Context(), netip.Addr{})
	if err != nil {
		d.Error = err.Error()
		return d
	}
	defer ad.Close()
	for _, c := range []struct {
		cap  rdma.Caps
		name string
	}{
		{rdma.CapInOrderPlacement, "in-order placement"},
		{rdma.CapRead, "read"},
		{rdma.CapWindows, "windows"},
		{rdma.CapSharedReceive, "shared receive queues"},
		{rdma.CapImmediate, "immediate data"},
		{rdma.CapFileSource, "file source"},
		{rdma.CapDirectFile, "files straight into the peer's memory"},
		{rdma.CapByReference, "messages by reference"},
		{rdma.CapConfidential, "confidential"},
	} {
		if ad.Info().Caps.Has(c.cap) {
			d.Capabilities = append(d.Capabilities, c.name)
		}
	}
	return d
}

func joinAddrs(addrs []netip.Addr) string {
	var s []string
	for _, a := range addrs {
		s = append(s, a.String())
	}
	return strings.Join(s, " ")
}
