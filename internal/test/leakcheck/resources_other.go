//go:build !linux

package leakcheck

// resources returns nothing on this system.
func resources() map[string]string { return nil }
