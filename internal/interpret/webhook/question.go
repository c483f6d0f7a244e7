// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/callout"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

const (
	// messageMax limits the characters of what a webhook says in its own words.
	messageMax = 256
	// again is when to ask a webhook once more that had no answer or a wrong one:
	// nothing on the hub tells when that is mended.
	again = time.Minute
)

// interpreterRequest is what a webhook is asked, and about which object.
type interpreterRequest struct {
	hook      *hook
	operation configv1alpha1.InterpreterOperation
	object    map[string]any
	observed  map[string]any
	replicas  *int32
	items     []interpret.ClusterItem
}

// sendRequest sends the question, and returns an answer to it that is one.
func (q interpreterRequest) sendRequest() (*configv1alpha1.ResourceInterpreterResponse, error) {
	uid := uuid.NewUUID()
	document, err := q.encodeRequest(uid)
	if err != nil {
		return nil, q.requestError(err, "Correct the object.")
	}
	text, err := q.hook.line.PostDocument(document)
	if err != nil {
		return nil, q.unansweredError(err)
	}
	answer := &configv1alpha1.ResourceInterpreterContext{}
	if err := quantity.UnmarshalChecked(text, answer); err != nil {
		return nil, q.invalidAnswerError(fmt.Errorf("its answer is no %s: %w", configv1alpha1.InterpreterContextKind, unreadableError(err)))
	}
	response := answer.Response
	switch {
	case response == nil:
		return nil, q.invalidAnswerError(errors.New("its answer has no response"))
	case response.UID != uid:
		return nil, q.invalidAnswerError(errors.New("response.uid of its answer is not request.uid of the question"))
	case !response.Successful:
		return nil, q.requestError(declined(response.Status), "See what the webhook logs.")
	}
	return response, nil
}

// encodeRequest writes the question.
func (q interpreterRequest) encodeRequest(uid types.UID) ([]byte, error) {
	kind := kindOf(q.object)
	request := &configv1alpha1.ResourceInterpreterRequest{
		UID:       uid,
		Kind:      metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
		Name:      fields.String(q.object, "metadata", "name"),
		Namespace: fields.String(q.object, "metadata", "namespace"),
		Operation: q.operation, DesiredReplicas: q.replicas,
	}
	var err error
	if request.Object.Raw, err = json.Marshal(q.object); err != nil {
		return nil, fmt.Errorf("writing the object as JSON: %w", err)
	}
	if q.observed != nil {
		raw, err := json.Marshal(q.observed)
		if err != nil {
			return nil, fmt.Errorf("writing the object of the cluster as JSON: %w", err)
		}
		request.ObservedObject = &runtime.RawExtension{Raw: raw}
	}
	for _, item := range q.items {
		status := workv1alpha2.AggregatedStatusItem{
			ClusterName: item.Cluster, Applied: item.Applied, AppliedMessage: item.Message, Health: workv1alpha2.ResourceHealth(item.Health),
		}
		if item.Status != nil {
			raw, err := json.Marshal(item.Status)
			if err != nil {
				return nil, fmt.Errorf("writing the status of cluster %q as JSON: %w", item.Cluster, err)
			}
			status.Status = &runtime.RawExtension{Raw: raw}
		}
		request.AggregatedStatus = append(request.AggregatedStatus, status)
	}
	return json.Marshal(configv1alpha1.ResourceInterpreterContext{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1alpha1.GroupVersion.String(), Kind: configv1alpha1.InterpreterContextKind},
		Request:  request,
	})
}

// requestError says which webhook has no answer to which question.
func (q interpreterRequest) requestError(err error, remedy string) error {
	name := fields.String(q.object, "metadata", "name")
	if namespace := fields.String(q.object, "metadata", "namespace"); namespace != "" {
		name = namespace + "/" + name
	}
	return &interpret.CustomError{
		By:        fmt.Sprintf("webhook %q of ResourceInterpreterWebhookConfiguration %q", q.hook.name, q.hook.configuration),
		Operation: fmt.Sprintf("%s of %s %q", q.operation, kindOf(q.object).Kind, name),
		Err:       err, Remedy: remedy, Again: again,
	}
}

// invalidAnswerError is failed of an answer that is none.
func (q interpreterRequest) invalidAnswerError(err error) error {
	return q.requestError(err, "Correct the webhook.")
}

// unansweredError is failed of a webhook that does not answer.
func (q interpreterRequest) unansweredError(err error) error {
	made := q.requestError(err, "")
	custom := (*interpret.CustomError)(nil)
	call := (*callout.Error)(nil)
	if errors.As(made, &custom) && errors.As(err, &call) {
		custom.Remedy, custom.Again = call.Remedy, call.RetryAfter()
	}
	return made
}

// declined says why a webhook says that it has no answer.
func declined(status *configv1alpha1.RequestStatus) error {
	switch {
	case status != nil && status.Message != "":
		return fmt.Errorf("it says: %s", limitText(status.Message))
	case status != nil && status.Code != 0:
		return fmt.Errorf("it says: code %d", status.Code)
	}
	return errors.New("it says that it was not successful, and not why")
}

// limitText returns the beginning of a text of others, in one line.
func limitText(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if runes := []rune(text); len(runes) > messageMax {
		return string(runes[:messageMax]) + "…"
	}
	return text
}

// unreadableError says what is wrong with a text that is not JSON, or other JSON,
// without what is in it: it may be of somebody who was never meant to be asked.
func unreadableError(err error) error {
	var (
		kind    *json.UnmarshalTypeError
		syntax  *json.SyntaxError
		corrupt base64.CorruptInputError
	)
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("%s is of the wrong type", cmp.Or(kind.Field, "it"))
	case errors.As(err, &corrupt):
		return errors.New("response.patch is not in base64")
	case errors.As(err, &syntax):
		return errors.New("it is not JSON")
	}
	return errors.New("it cannot be read")
}

func kindOf(object map[string]any) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(fields.String(object, "apiVersion"), fields.String(object, "kind"))
}
