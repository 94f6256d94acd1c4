//go:build !linux

package rsock

// watchAddresses has nobody to ask here: addresses are compared every Config.Refresh.
func watchAddresses() (changed <-chan struct{}, stop func(), err error) {
	return nil, func() {}, nil
}
