// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command argocd prints how healthy Argo CD considers objects: it reads them from its input, one JSON object after the
// other, and answers each with a JSON object, or with null for a kind that Argo CD has no check for. The checks are
// Argo CD's own, those in Go and those in Lua.
//
// It is a program and a module of its own because Argo CD does not compile with the Kubernetes modules of Capstan.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func main() {
	if err := judge(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "argocd:", err)
		os.Exit(1)
	}
}

// judge answers all objects of the input.
func judge(in io.Reader, out io.Writer) error {
	objects, verdicts := json.NewDecoder(in), json.NewEncoder(out)
	for {
		object := &unstructured.Unstructured{}
		if err := objects.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading an object: %w", err)
		}
		verdict, err := health.GetResourceHealth(object, scripts{})
		if err != nil { // for which Argo CD shows the object as Unknown, with the error as the message
			verdict = &health.HealthStatus{Status: health.HealthStatusUnknown, Message: err.Error()}
		}
		if err := verdicts.Encode(verdict); err != nil {
			return fmt.Errorf("writing the health of %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}
