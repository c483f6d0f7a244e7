// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prometheus has the tests of deploy/observability: the dashboards and
// the alert rules are read by Prometheus' own parser, the rules are evaluated by
// its own engine, and in a lab (build tag e2e) all queries are run against what
// its own scraper has read from real components.
//
// It is a module of its own, so that Prometheus is no dependency of Capstan.
package prometheus
