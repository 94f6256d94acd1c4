package integration

// skips says which tests may be skipped in CI, and why. A skip that is not here
// fails there.
var skips = map[string]string{}
