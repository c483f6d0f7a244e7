// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"fmt"
	"os"

	olmv2 "github.com/operator-framework/api/pkg/operators/v2"
	olm "github.com/operator-framework/operator-lib/conditions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SignalFromOLM returns the signal that sets the OperatorCondition of this operator, or
// nil if OLM did not install it.
func SignalFromOLM(config *rest.Config) (Signal, error) {
	var none Signal
	if os.Getenv("OPERATOR_CONDITION_NAME") == "" {
		return none, nil
	}
	scheme := runtime.NewScheme()
	if err := olmv2.AddToScheme(scheme); err != nil {
		return none, fmt.Errorf("building the scheme of OLM's kinds: %w", err)
	}
	// Past the cache: OLM gives the operator its one OperatorCondition only.
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return none, fmt.Errorf("making the client for OLM: %w", err)
	}
	condition, err := olm.InClusterFactory{Client: direct}.NewCondition(ConditionType)
	if err != nil {
		return none, fmt.Errorf("finding the OperatorCondition: %w", err)
	}
	return condition, nil
}
