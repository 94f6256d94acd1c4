package hook

import (
	"context"
	"log/slog"
)

// logTracer writes events to a log.
type logTracer struct{ log *slog.Logger }

// LogTo returns a tracer that writes every event to a log: what failed as a
// warning, all else for debugging. Levels that the logger does not take cost
// next to nothing.
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
