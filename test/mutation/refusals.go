// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/schemata"
)

// refusals lists the tests that only show what is refused. The code that they run may
// read a field to use it and to refuse it at once, so its mutant fails them without the
// field having an effect: they prove rows about refusal, and no others.
func refusals() []string {
	return []string{
		"config.TestTheDefinitionOfInterpreterWebhooksRefuses",
		"config.TestTheDefinitionsOfPropagationRefuse",
		"internal/apiserver/cluster/validation.TestAMistakeIsToldWithItsField",
		"internal/apiserver/cluster/validation.TestWhatCannotBeChanged",
		"internal/kube/apply/ignore.TestExpressionsThatCannotBeUsedSayWhy",
		"internal/cluster/affinity.TestMistakesNameTheirField",
		"internal/scheduling/placement.TestMistakesNameTheirField",
		"internal/scheduling/rollout.TestMistakesOfTheAPIAreNamedByField",
		"internal/webhook/propagation.TestMistakesInBindings",
		"internal/webhook/propagation.TestMistakesInOverridePolicies",
		"internal/webhook/propagation.TestMistakesInPropagationPolicies",
		"operators/controlplane.TestTheAPIServerRefusesWhatCannotWork",
	}
}

// proving returns the tests of a row that can prove its mutant.
func proving(row proof.Row, mutant string) []proof.Test {
	return slices.DeleteFunc(row.Tests(), func(test proof.Test) bool {
		return !schemata.OfRefusal(mutant) && slices.Contains(refusals(), test.Folder+"."+test.Name)
	})
}
