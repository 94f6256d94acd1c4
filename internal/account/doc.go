// Package account charges peers for the resources that they hold. It imports the standard
// library only.
package account
