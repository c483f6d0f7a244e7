// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stories

import "github.com/prometheus/prometheus/promql/parser"

const (
	Root     = "../../.."
	Files    = Root + "/deploy/observability"
	RuleFile = Files + "/prometheus-rules.yaml"
	Runbooks = Root + "/docs/runbooks"
)

// PromQL is the language as Prometheus reads it without feature flags.
func PromQL() parser.Parser { return parser.NewParser(parser.Options{}) }
