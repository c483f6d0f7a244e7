// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
)

// hubPatience is how long the hub may take to tell its customizations. What Capstan
// itself knows of a kind is known without it.
const hubPatience = 5 * time.Second

// runOperation runs an operation.
func (o *interpretOptions) runOperation(ctx context.Context, session *hub.Session, operation interpreters.Operation) error {
	in, err := o.readOperationInput(session.In)
	if err != nil {
		return err
	}
	if err := in.CheckInput(operation); err != nil {
		return exit.UsageError("%w", err)
	}
	known, err := o.readInterpreters(ctx, session)
	if err != nil {
		return err
	}
	result, err := known.RunOperation(operation, in)
	about := in.Desired
	if about == nil {
		about = in.Observed
	}
	switch {
	case len(o.files) > 0 && len(result.By) == 0, errors.Is(err, interpreters.ErrNobody):
		return o.nobodyAnswersError(operation, about)
	case errors.Is(err, interpreters.ErrWebhook):
		return exit.Next(err, "With -f, the scripts in the files are used instead.")
	case err != nil:
		return exit.Next(err, "\"capstan interpret --show-doc --operation %s\" describes what its function gets and returns.", operation)
	}
	if o.format == "" {
		by := strings.Join(result.By, " and ")
		if by == "" {
			by = "the conventions of all kinds"
		}
		fmt.Fprintf(session.ErrOut, "%s, by %s:\n", operation, by)
	}
	return o.format.Print(session.Out, result, func() string { return formatAnswer(result) })
}

// readInterpreters returns who answers: the scripts of the files, or else those who do so on
// the hub.
func (o *interpretOptions) readInterpreters(ctx context.Context, session *hub.Session) (*interpreters.KnownInterpreters, error) {
	if len(o.files) > 0 {
		all, err := o.customizations(session.In)
		if err != nil {
			return nil, err
		}
		return interpreters.NewKnownInterpreters(all, session.Clock.Now, false), nil
	}
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	c, err := session.ConnectHub()
	if err == nil {
		known, unread, failed := interpreters.ReadInterpreters(ctx, c, session.Clock.Now)
		if unread != "" {
			fmt.Fprintf(session.ErrOut, "You may not read %s.\n", unread)
		}
		if failed == nil {
			return known, nil
		}
		err = failed
	}
	fmt.Fprintf(session.ErrOut, "The customizations of the hub could not be read, and do not count here: %v\n", session.ExplainError(err))
	return interpreters.NewKnownInterpreters(nil, session.Clock.Now, true), nil
}

// nobodyAnswersError is the error of an operation that nobody answers.
func (o *interpretOptions) nobodyAnswersError(operation interpreters.Operation, about *unstructured.Unstructured) error {
	kind := fmt.Sprintf("%s of %s", about.GetKind(), about.GetAPIVersion())
	if len(o.files) == 0 {
		return exit.Next(fmt.Errorf("nothing interprets %s for %s", operation, kind),
			"A ResourceInterpreterCustomization with spec.customizations.%s does: see \"capstan interpret --show-doc\".", operation.Script())
	}
	return exit.Next(fmt.Errorf("no customization of the files has spec.customizations.%s for %s", operation.Script(), kind),
		"spec.target has to be the apiVersion and the kind of the object. Without -f, you see who answers on the hub.")
}

// formatAnswer returns a result for people.
func formatAnswer(r *interpreters.Result) string {
	var value any
	switch r.Operation {
	case interpreters.InterpretReplica:
		value = map[string]any{"replicas": r.Replicas, "replicaRequirements": r.Requirements}
	case interpreters.InterpretComponent:
		value = map[string]any{"components": r.Components}
	case interpreters.ReviseReplica, interpreters.Retain:
		value = r.Object
	case interpreters.InterpretStatus, interpreters.AggregateStatus:
		value = map[string]any{"status": r.Status}
	case interpreters.InterpretHealth:
		value = map[string]any{"health": r.Health}
	default:
		value = map[string]any{"dependencies": r.Dependencies}
	}
	text, err := sigsyaml.Marshal(value)
	if err != nil {
		text = fmt.Appendf(nil, "%v\n", value)
	}
	return string(text)
}
