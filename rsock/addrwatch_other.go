//go:build !linux

package rsock

// watchAddresses does nothing on this system: addresses are read every
// Config.RefreshInterval.
func watchAddresses() (changed <-chan struct{}, stop func(), err error) {
	return nil, func() {}, nil
}
