package fault

import (
	"context"
	"log/slog"
	"time"

	"lwio/rdma"
)

// Tracer receives the events. The goroutine of the operation calls Event; many goroutines
// may call it at once. Event must return quickly.
type Tracer interface {
	Event(Event)
}

// Event is one of Posted, Completed and Controlled.
type Event interface {
	// failure returns the error of the event, or nil; describe returns its name and its
	// attributes.
	failure() error
	describe() (string, []slog.Attr)
}

// Posted is the post of a request to a queue pair.
type Posted struct {
	// QueuePair is the Context of the queue pair's config.
	QueuePair uint64
	// Op, Flags and ID are the fields of the request, Bytes its number of data bytes. Op
	// is OpReceive for a receive.
	Op    rdma.Op
	Flags rdma.Flags
	ID    uint64
	Bytes int
	// Remote is the target of a write or the source of a read.
	Remote rdma.RemoteAddr
	// Action is the decision of the fault function. It is Pass for a receive, and without
	// a fault function.
	Action Action
	// Err is the reason why the queue pair did not take the request, or nil.
	Err error
}

// Completed is the poll of a result.
type Completed struct {
	rdma.Result
}

// Controlled is the end of a call of the control path.
type Controlled struct {
	// Op is the call: "connect", "register memory", "close queue pair".
	Op string
	// Object is an address or a size, or empty.
	Object string
	// Took is the duration of the call.
	Took time.Duration
	// Err is the error of the call.
	Err error
}

// logTracer writes events to a log.
type logTracer struct{ log *slog.Logger }

// LogTo returns a tracer that writes every event to a log: failures as warnings, all
// others at debug level. A disabled level costs almost nothing.
func LogTo(log *slog.Logger) Tracer { return logTracer{log} }

// Event writes one event.
func (t logTracer) Event(e Event) {
	ctx, level := context.Background(), slog.LevelDebug
	if e.failure() != nil {
		level = slog.LevelWarn
	}
	if t.log.Enabled(ctx, level) {
		what, attrs := e.describe()
		if err := e.failure(); err != nil {
			attrs = append(attrs, slog.Any("error", err))
		}
		t.log.LogAttrs(ctx, level, what, attrs...)
	}
}

func (e Posted) failure() error { return e.Err }

func (e Posted) describe() (string, []slog.Attr) {
	attrs := []slog.Attr{
		slog.Uint64("pair", e.QueuePair), slog.String("op", e.Op.String()), slog.Uint64("id", e.ID),
		slog.Int("bytes", e.Bytes), slog.Uint64("flags", uint64(e.Flags)),
	}
	if e.Action != Pass() {
		attrs = append(attrs, slog.String("fault", e.Action.String()))
	}
	return "posted", attrs
}

func (e Completed) failure() error {
	if e.Status == 0 {
		return nil
	}
	return e.Status
}

func (e Completed) describe() (string, []slog.Attr) {
	return "completed", []slog.Attr{
		slog.Uint64("pair", e.QueuePairContext), slog.String("op", e.Op.String()), slog.Uint64("id", e.ID),
		slog.Int("bytes", e.Bytes),
	}
}

func (e Controlled) failure() error { return e.Err }

func (e Controlled) describe() (string, []slog.Attr) {
	return e.Op, []slog.Attr{slog.String("object", e.Object), slog.Duration("took", e.Took)}
}
