package measure

import "fmt"

// Figure is a quantity of a run.
type Figure string

// The figures, in the order of the columns.
const (
	Rate         Figure = "rate"          // operations per second
	Throughput   Figure = "throughput"    // bytes per second
	Each         Figure = "each"          // nanoseconds of one operation
	P50          Figure = "p50"           // nanoseconds
	P99          Figure = "p99"           // nanoseconds
	Served       Figure = "served"        // clients that a server has served
	PeerRate     Figure = "peers"         // attempts of unauthenticated peers per second
	ClientCPU    Figure = "client CPU"    // nanoseconds for one operation
	ServerCPU    Figure = "server CPU"    // nanoseconds for one operation
	MachineCPU   Figure = "machine CPU"   // nanoseconds for one operation, interrupts included
	Others       Figure = "others"        // cores that other processes and the kernel's own threads used
	Allocations  Figure = "allocations"   // of both sides for one operation
	ClientMemory Figure = "client memory" // bytes of one connection
	ServerMemory Figure = "server memory" // bytes of one connection
	TotalMemory  Figure = "server total"  // bytes of the server
	StateSize    Figure = "state"         // bytes of the files of a state
)

// columns are all figures in the order of the columns.
var columns = []Figure{
	Served, Rate, Throughput, Each, P50, P99, PeerRate, ClientCPU, ServerCPU, MachineCPU, Others, Allocations,
	ClientMemory, ServerMemory, TotalMemory, StateSize,
}

// Sample is the outcome of one run.
type Sample map[Figure]float64

// Format is a value of a figure with its unit.
func (f Figure) Format(v float64) string {
	switch f {
	case Served:
		return fmt.Sprintf("%.0f", v)
	case Rate, PeerRate:
		return fmt.Sprintf("%.0f/s", v)
	case Throughput:
		return fmt.Sprintf("%.0f MB/s", v/1e6)
	case Others:
		return fmt.Sprintf("%.2f", v)
	case Allocations:
		return fmt.Sprintf("%.3f", v)
	case ClientMemory, ServerMemory, TotalMemory, StateSize:
		if v >= 1<<20 {
			return fmt.Sprintf("%.1f MiB", v/(1<<20))
		}
		return fmt.Sprintf("%.1f KiB", v/1024)
	case Each, P50, P99, ClientCPU, ServerCPU, MachineCPU:
	}
	return Duration(v)
}

// Duration is a number of nanoseconds in a suitable unit.
func Duration(ns float64) string {
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.2f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.2f ms", ns/1e6)
	case ns >= 1e4:
		return fmt.Sprintf("%.1f us", ns/1e3)
	case ns >= 1e3:
		return fmt.Sprintf("%.2f us", ns/1e3)
	}
	return fmt.Sprintf("%.1f ns", ns)
}
