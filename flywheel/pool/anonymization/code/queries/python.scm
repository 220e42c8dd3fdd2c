; Declarations.
(function_definition name: (identifier) @func)
(class_definition name: (identifier) @class) @owner
(class_definition superclasses: (argument_list [(identifier) @base (attribute attribute: (identifier) @base) (subscript value: (identifier) @base) (subscript value: (attribute attribute: (identifier) @base))]))
(class_definition body: (block [
  (function_definition name: (identifier) @method)
  (decorated_definition definition: (function_definition name: (identifier) @method))
  (expression_statement (assignment left: (identifier) @attribute))
  (expression_statement (assignment left: (pattern_list (identifier) @attribute)))]))
(assignment left: [(identifier) @var (pattern_list (identifier) @var)])
(augmented_assignment left: (identifier) @var)
([(assignment left: (attribute object: (identifier) @self attribute: (identifier) @field))
  (assignment left: (pattern_list (attribute object: (identifier) @self attribute: (identifier) @field)))]
 (#any-of? @self "self" "cls"))
(named_expression name: (identifier) @var)
(for_statement left: (identifier) @var)
(for_in_clause left: (identifier) @var)
(pattern_list (identifier) @var)
(tuple_pattern (identifier) @var)
(list_pattern (identifier) @var)
(list_splat_pattern (identifier) @var)
(dictionary_splat_pattern (identifier) @var)
(as_pattern_target (identifier) @var)
(parameters (identifier) @var)
(lambda_parameters (identifier) @var)
(typed_parameter . (identifier) @var)
(default_parameter name: (identifier) @var)
(typed_default_parameter name: (identifier) @var)
(case_pattern (dotted_name . (identifier) @var .))
(splat_pattern (identifier) @var)
(type_alias_statement left: (type (identifier) @class))

; Uses.
(attribute object: (_) @receiver attribute: (identifier) @member)
(keyword_pattern . (identifier) @member)
((call function: (identifier) @called arguments: (argument_list . (_) . (string (string_content) @member)))
 (#any-of? @called "getattr" "setattr" "hasattr" "delattr"))
((assignment left: (identifier) @special right: [(tuple (string (string_content) @member)) (list (string (string_content) @member)) (string (string_content) @member)])
 (#any-of? @special "__slots__" "__match_args__"))
((assignment left: (identifier) @special right: [(tuple (string (string_content) @plain)) (list (string (string_content) @plain))])
 (#eq? @special "__all__"))

(type (string (string_content) @plain))

; Not ours.
(import_statement name: [(dotted_name (identifier) @foreign) (aliased_import name: (dotted_name (identifier) @foreign)) (aliased_import alias: (identifier) @foreign)])
(import_from_statement module_name: [(dotted_name (identifier) @fixed) (relative_import (dotted_name (identifier) @fixed))])
(import_from_statement name: [(dotted_name (identifier) @imported) (aliased_import name: (dotted_name (identifier) @imported)) (aliased_import alias: (identifier) @imported)])
(interpolation expression: (identifier) @foreign "=")
(keyword_argument name: (identifier) @fixed)

; Keyword arguments.
(call function: (_) @function arguments: (argument_list [(keyword_argument) (dictionary_splat)]) @arguments)
(function_definition name: (identifier) @callable parameters: (parameters) @parameters)
(class_definition name: (identifier) @callable body: (block (expression_statement (assignment left: (identifier) @parameter type: (_)))))
(decorated_definition (decorator (_) @decorator) definition: (function_definition parameters: (parameters) @decorated))

; Text.
(comment) @comment
(string) @string
