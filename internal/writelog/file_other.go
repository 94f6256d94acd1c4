//go:build !linux

package writelog

import "errors"

func create(string, int) ([]byte, error) { return nil, errors.ErrUnsupported }
func open(string, int) ([]byte, error)   { return nil, errors.ErrUnsupported }
func unmap([]byte) error                 { return errors.ErrUnsupported }
