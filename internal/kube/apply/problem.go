// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

// Trouble is a kind of failure, by who can mend it.
type Trouble uint8

// The kinds of failure.
const (
	// TroubleNone is success.
	TroubleNone Trouble = iota
	// TroublePassing may be over soon: the server is busy, or what the object
	// lives in or is a kind of is not there yet.
	TroublePassing
	// TroubleForbidden: the agent lacks a permission at the cluster.
	TroubleForbidden
	// TroubleInvalid: the server, or an admission check in it, refuses the object.
	TroubleInvalid
	// TroubleConflict: someone else owns a field with another value.
	TroubleConflict
	// TroubleRaced: the object changed since it was looked at.
	TroubleRaced
	// TroubleExpression: a field to ignore is named wrongly.
	TroubleExpression
	// TroubleGoing: the object is being deleted, and waits for its finalizers.
	TroubleGoing
	// TroubleTaken: the object is somebody else's, and is left alone.
	TroubleTaken
	// TroubleCustomized: whoever customizes the kind does not say what to apply.
	TroubleCustomized
)

// MessageBytesMax is how long a message about an object may be. A server says what it likes, and
// what is said of each object is kept until that changes.
const MessageBytesMax = 8 << 10

// ObjectProblem is what an error means for the author of a manifest.
type ObjectProblem struct {
	Trouble Trouble
	// Message is one line, the same each time.
	Message string
	// NoKind says that the resource itself is not there.
	NoKind bool
	// NoNamespace says that the namespace of the object is not there, or going.
	NoNamespace bool
}

// ExplainError returns what err, from doing what the verb says to the object, means.
func ExplainError(err error, verb string, object ObjectRef) ObjectProblem {
	if err == nil {
		return ObjectProblem{}
	}
	problem := classifyError(err, verb, object)
	problem.Message = stripVaryingParts(conditions.ShortenText(problem.Message, MessageBytesMax))
	return problem
}

func classifyError(err error, verb string, object ObjectRef) ObjectProblem {
	if errors.Is(err, ErrNotObject) {
		return ObjectProblem{Trouble: TroubleInvalid, Message: "The manifest is " + err.Error() + "."}
	}
	if errors.Is(err, ignore.ErrExpression) {
		return ObjectProblem{Trouble: TroubleExpression, Message: "Cannot evaluate ignoreFields: " + strings.ReplaceAll(err.Error(), "\n", "; ") + "."}
	}
	if errors.Is(err, ErrNoKind) {
		return ObjectProblem{
			Trouble: TroublePassing, NoKind: true,
			Message: upperFirst(err.Error()) + ": waiting for its definition; install it on the cluster, or add it to this work.",
		}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ObjectProblem{Trouble: TroublePassing, Message: fmt.Sprintf("Cannot %s %s: %v.", verb, object, err)}
	}
	if IsInexpressible(err) {
		return ObjectProblem{
			Trouble: TroubleInvalid,
			Message: fmt.Sprintf("Cannot %s %s: %s. Remove the duplicates, or use updateStrategy Update, which replaces the object.", verb, object, status.Status().Message),
		}
	}
	return explainStatus(status.Status(), err, verb, object)
}

func explainStatus(status metav1.Status, err error, verb string, object ObjectRef) ObjectProblem {
	message := fmt.Sprintf("Cannot %s %s: %s", verb, object, status.Message)
	switch {
	case apierrors.HasStatusCause(err, "NamespaceTerminating"): // corev1.NamespaceTerminatingCause
		return ObjectProblem{
			Trouble: TroublePassing, NoNamespace: true,
			Message: fmt.Sprintf("Namespace %q is being deleted; the object is created once the namespace exists again.", object.Namespace),
		}
	case status.Code == http.StatusNotFound && status.Details != nil && status.Details.Kind == "namespaces" && object.Namespace != "":
		return ObjectProblem{
			Trouble: TroublePassing, NoNamespace: true,
			Message: fmt.Sprintf("Namespace %q does not exist: add it to the work, or create it on the cluster.", object.Namespace),
		}
	case status.Code == http.StatusMethodNotAllowed: // what cannot be patched at all is not looked for
		return ObjectProblem{
			Trouble: TroublePassing, NoKind: true,
			Message: fmt.Sprintf("The definition of %s is being deleted; the object is created once it exists again.", resourceOf(object)),
		}
	case status.Code == http.StatusForbidden && strings.Contains(status.Message, "\" cannot "):
		return ObjectProblem{Trouble: TroubleForbidden, Message: forbiddenMessage(status, verb, object)}
	case status.Code == http.StatusForbidden, status.Code == http.StatusUnprocessableEntity,
		status.Code == http.StatusBadRequest, status.Code == http.StatusRequestEntityTooLarge,
		status.Code == http.StatusUnsupportedMediaType:
		return ObjectProblem{Trouble: TroubleInvalid, Message: message}
	case status.Code == http.StatusConflict:
		return explainConflict(status, message)
	case status.Code == http.StatusNotFound && (status.Details == nil || status.Details.Name == ""):
		return ObjectProblem{
			Trouble: TroublePassing, NoKind: true,
			Message: fmt.Sprintf("The cluster does not serve %s any more; install its definition again.", resourceOf(object)),
		}
	case strings.Contains(status.Message, "failed calling webhook"):
		return ObjectProblem{Trouble: TroublePassing, Message: message +
			". It is tried again: that webhook of the cluster has to admit the object; if this persists, check the webhook's pods, Service and certificate."}
	default:
		return ObjectProblem{Trouble: TroublePassing, Message: message}
	}
}

// IsInexpressible reports whether server-side apply was refused only since the manifest has items
// of a list twice, such as a port or an environment variable: it cannot say so. Other writes
// may. They would also drop fields that the schema does not declare, and tell nobody: those
// have to be left out first. The API server has no type for this error.
func IsInexpressible(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError &&
		strings.Contains(status.Status().Message, "failed to create typed patch object") &&
		strings.Contains(status.Status().Message, "duplicate entries for key") &&
		!strings.Contains(status.Status().Message, undeclaredSuffix)
}

// forbiddenMessage names what is missing and where to add it.
func forbiddenMessage(status metav1.Status, verb string, object ObjectRef) string {
	scope := "in the whole cluster"
	if object.Namespace != "" {
		scope = fmt.Sprintf("in namespace %q", object.Namespace)
	}
	return fmt.Sprintf("The agent may not %s %s %s. Create a ClusterRole on the managed cluster with the label "+
		"%s and a rule for apiGroups [%q], resources [%q], "+
		"verbs [get list watch create patch delete]%s. The API server says: %s",
		verb, resourceOf(object), scope, aggregateToWork, object.Group, object.Resource, grantingRole(resourceOf(object)), status.Message)
}

// aggregateToWork is the label of ClusterRoles that agents get the rules of.
const aggregateToWork = "open-cluster-management.io/aggregate-to-work=true"

// grantingRole returns the commands that create the ClusterRole for a resource, or nothing if its
// name could mean something to a shell: people copy them, and the member chooses the name.
func grantingRole(resource string) string {
	if len(validation.IsDNS1123Subdomain(resource)) > 0 {
		return ""
	}
	return fmt.Sprintf(": kubectl create clusterrole work-%[1]s --verb=get,list,watch,create,patch,delete --resource=%[1]s && "+
		"kubectl label clusterrole work-%[1]s %[2]s", resource, aggregateToWork)
}

func resourceOf(object ObjectRef) string {
	if object.Group == "" {
		return object.Resource
	}
	return object.Resource + "." + object.Group
}

// explainConflict tells a field that someone else owns from an object that
// changed in between.
func explainConflict(status metav1.Status, message string) ObjectProblem {
	problem := ObjectProblem{Trouble: TroubleRaced, Message: message}
	if status.Details == nil {
		return problem
	}
	var fields []string
	for _, cause := range status.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		problem.Trouble = TroubleConflict
		fields = append(fields, fmt.Sprintf("%s (%s)", cause.Field, firstQuotedText(cause.Message)))
	}
	if problem.Trouble == TroubleConflict {
		problem.Message = "Other field managers own fields with different values: " + strings.Join(fields, ", ") + "."
	}
	return problem
}

// ConflictingManagers returns the field managers with which an error of Member.Apply says that the object
// is in conflict.
func ConflictingManagers(err error) sets.Set[string] {
	managers := sets.New[string]()
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsConflict(err) || status.Status().Details == nil {
		return managers
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			managers.Insert(firstQuotedText(cause.Message))
		}
	}
	return managers
}

// firstQuotedText returns the first part of the text that stands in double quotes.
func firstQuotedText(text string) string {
	_, after, _ := strings.Cut(text, `"`)
	inside, _, _ := strings.Cut(after, `"`)
	return inside
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
