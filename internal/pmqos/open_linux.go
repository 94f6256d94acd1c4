package pmqos

import "os"

func open(device string) (*os.File, error) { return os.OpenFile(device, os.O_WRONLY, 0) }
