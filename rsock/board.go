package rsock

// board is the switch of a Dialer or a Listener. Safe for concurrent use.
type board struct {
	cfg Config
}

func newBoard(cfg *Config) *board { return &board{cfg: cfg.withDefaults()} }
