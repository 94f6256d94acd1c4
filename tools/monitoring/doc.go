// Package monitoring has the tests of the rules of Prometheus and of the board of Grafana in packaging. They need
// libraries that no other part of the project needs.
package monitoring
